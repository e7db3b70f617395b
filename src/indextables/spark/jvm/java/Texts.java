package indextables.spark;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.IOException;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.StructType;

/** Conversion of values between Java and Python as JSON, because Py4J needs a call for each element of a collection. */
final class Texts {
    private static final int MOST_SCHEMAS = 64;
    private static final ObjectMapper MAPPER = new ObjectMapper();
    private static final Map SCHEMAS = Collections.synchronizedMap(new LinkedHashMap(16, 0.75f, true) {
        protected boolean removeEldestEntry(Map.Entry eldest) {
            return size() > MOST_SCHEMAS;
        }
    });

    /** The answer of Python; throws an exception if it is the text of an error. */
    static Object checked(Object answer) {
        if (answer instanceof String) throw new IllegalArgumentException((String) answer);
        return answer;
    }

    static String json(Object value) {
        try {
            return MAPPER.writeValueAsString(value);
        } catch (JsonProcessingException error) {
            throw new IllegalStateException(error);
        }
    }

    /** A cached schema: parsing one is slow, and most queries repeat the columns of earlier queries. */
    static StructType schema(String json) {
        StructType known = (StructType) SCHEMAS.get(json);
        if (known == null) {
            known = (StructType) DataType.fromJson(json);
            SCHEMAS.put(json, known);
        }
        return known;
    }

    /** A JSON object, from the bytes of its text. */
    static Map map(Object bytes) {
        return (Map) read((byte[]) bytes, Map.class);
    }

    /** A JSON array, from the bytes of its text. */
    static List list(Object bytes) {
        return (List) read((byte[]) bytes, List.class);
    }

    private static Object read(byte[] bytes, Class kind) {
        try {
            return MAPPER.readValue(bytes, kind);
        } catch (IOException error) {
            throw new IllegalStateException(error);
        }
    }
}
