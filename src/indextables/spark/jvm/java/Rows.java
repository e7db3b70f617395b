package indextables.spark;

import java.util.ArrayList;
import java.util.List;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.InterpretedUnsafeProjection$;
import org.apache.spark.sql.catalyst.expressions.BoundReference;
import org.apache.spark.sql.catalyst.expressions.UnsafeProjection;
import org.apache.spark.sql.execution.arrow.ArrowConverters$;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CloseableIterator;
import scala.Tuple2;
import scala.jdk.javaapi.CollectionConverters;

/** Arrow's stream format as rows. */
final class Rows {
    /** Rows in Spark's own format: copies of rows over Arrow's memory would fail at nulls in arrays and maps. */
    static List of(byte[] stream) {
        Tuple2 read = ArrowConverters$.MODULE$.fromIPCStream(stream);
        CloseableIterator rows = (CloseableIterator) read._1();
        try {
            UnsafeProjection copied = projection((StructType) read._2());
            List found = new ArrayList();
            while (rows.hasNext()) found.add(copied.apply((InternalRow) rows.next()).copy());
            return found;
        } finally {
            try {
                rows.close();
            } catch (Exception error) {
                throw new IllegalStateException(error);
            }
        }
    }

    /** The columns unchanged. The projection is interpreted: a stream is short, and code generation is slow. */
    private static UnsafeProjection projection(StructType schema) {
        List columns = new ArrayList();
        StructField[] fields = schema.fields();
        for (int i = 0; i < fields.length; i++) {
            columns.add(new BoundReference(i, fields[i].dataType(), fields[i].nullable()));
        }
        return InterpretedUnsafeProjection$.MODULE$.createProjection(CollectionConverters.asScala(columns).toSeq());
    }
}
